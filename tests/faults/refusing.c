/* Lets the system call of a number fail, and with FAULT_ON all later ones, on files below a folder; counts them.
 *
 * FAULT_FOLDER: the folder; FAULT_STEP: number of the call, 0 for none; FAULT_CODE: its error; FAULT_ON: all later ones
 * by which something is written as well; FAULT_COUNT: a file for the number of calls; FAULT_CLOCK: seconds by which the
 * clock goes back each time it is asked.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static long calls, step = -1;
static int code, goes_on;
static const char *folder;

static void begin(void) {
    if (step >= 0) return;
    const char *said = getenv("FAULT_STEP");
    folder = getenv("FAULT_FOLDER");
    code = getenv("FAULT_CODE") ? atoi(getenv("FAULT_CODE")) : 0;
    goes_on = getenv("FAULT_ON") != NULL;
    step = said ? atol(said) : 0;
}

static int refuse(int is_write) {
    long number = __sync_add_and_fetch(&calls, 1);
    if (step > 0 && (number == step || (goes_on && is_write && number > step))) {
        errno = code;
        return 1;
    }
    return 0;
}

static int is_path(const char *path) {
    begin();
    return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_file(int file) {
    char link[64], path[PATH_MAX];
    begin();
    if (!folder) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return is_path(path);
}

#define REAL(name, type) static type (*real)(); if (!real) real = (type (*)())dlsym(RTLD_NEXT, name)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, int); va_end(more); \
        REAL(#name, int); \
        if (is_path(path) && refuse(flags & (O_CREAT | O_WRONLY | O_RDWR))) return -1; \
        return real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define ON_PATH(name, parameters, first, ...) \
    int name parameters { REAL(#name, int); if (is_path(first) && refuse(1)) return -1; return real(__VA_ARGS__); }
ON_PATH(mkdir, (const char *path, mode_t mode), path, path, mode)
ON_PATH(rmdir, (const char *path), path, path)
ON_PATH(unlink, (const char *path), path, path)
ON_PATH(rename, (const char *one, const char *other), one, one, other)
ON_PATH(link, (const char *one, const char *other), one, one, other)
ON_PATH(renameat2, (int a, const char *one, int b, const char *other, unsigned flags), one, a, one, b, other, flags)

#define ON_FILE(type, name, parameters, is_write, ...) \
    type name parameters { REAL(#name, type); if (is_file(file) && refuse(is_write)) return -1; return real(__VA_ARGS__); }
ON_FILE(ssize_t, write, (int file, const void *data, size_t size), 1, file, data, size)
ON_FILE(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), 1, file, data, size, at)
ON_FILE(ssize_t, pwrite64, (int file, const void *data, size_t size, off_t at), 1, file, data, size, at)
ON_FILE(ssize_t, read, (int file, void *data, size_t size), 0, file, data, size)
ON_FILE(ssize_t, pread, (int file, void *data, size_t size, off_t at), 0, file, data, size, at)
ON_FILE(ssize_t, pread64, (int file, void *data, size_t size, off_t at), 0, file, data, size, at)
ON_FILE(int, ftruncate, (int file, off_t size), 1, file, size)
ON_FILE(int, ftruncate64, (int file, off_t size), 1, file, size)
ON_FILE(int, fsync, (int file), 1, file)

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL("clock_gettime", int);
    static long asked, back = -1;
    if (back < 0) back = getenv("FAULT_CLOCK") ? atol(getenv("FAULT_CLOCK")) : 0;
    int answer = real(clock, now);
    if (answer == 0 && clock == CLOCK_REALTIME) now->tv_sec -= back * __sync_add_and_fetch(&asked, 1);
    return answer;
}

__attribute__((destructor)) static void end(void) {
    const char *place = getenv("FAULT_COUNT");
    if (!place || step < 0) return;
    FILE *file = fopen(place, "w");
    if (file) { fprintf(file, "%ld", calls); fclose(file); }
}
