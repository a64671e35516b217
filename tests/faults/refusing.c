/* Lets the system call of a number fail, and perhaps all later ones, on files below a folder; counts them.
 *
 * Nothing is refused until `refuse` says what is; the clock goes right until `turn_back` says that it does not.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static char folder[PATH_MAX];
static long step, back, asked, *calls;
static int code, goes_on;

/* From now on let the call `number` fail with an error, 0 for none, and with `on` all later ones by which something is
 * written as well; count the calls in `counter`. */
void refuse(const char *below, long number, int error, int on, long *counter) {
    strncpy(folder, below, sizeof folder - 1);
    step = number;
    code = error;
    goes_on = on;
    calls = counter;
}

/* From now on let the clock go back so many seconds each time it is asked. */
void turn_back(long seconds) { back = seconds; }

static int refused(int is_write) {
    long number = __sync_add_and_fetch(calls, 1);
    if (step > 0 && (number == step || (goes_on && is_write && number > step))) {
        errno = code;
        return 1;
    }
    return 0;
}

static int is_path(const char *path) {
    return calls && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_file(int file) {
    char link[64], path[PATH_MAX];
    if (!calls || file < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return is_path(path);
}

/* A path may be relative to a folder that is open. */
static int is_at(int at, const char *path) { return path && path[0] == '/' ? is_path(path) : is_file(at); }

#define REAL(name, type) static type (*real)(); if (!real) real = (type (*)())dlsym(RTLD_NEXT, name)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); unsigned mode = va_arg(more, int); va_end(more); \
        REAL(#name, int); \
        if (is_path(path) && refused(flags & (O_CREAT | O_WRONLY | O_RDWR))) return -1; \
        return real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name) \
    int name(int at, const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); unsigned mode = va_arg(more, int); va_end(more); \
        REAL(#name, int); \
        if (is_at(at, path) && refused(flags & (O_CREAT | O_WRONLY | O_RDWR))) return -1; \
        return real(at, path, flags, mode); \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

#define WHERE(type, failed, name, parameters, is_there, is_write, ...) \
    type name parameters { \
        REAL(#name, type); if (is_there && refused(is_write)) return failed; return real(__VA_ARGS__); \
    }
#define ON_PATH(name, parameters, first, ...) WHERE(int, -1, name, parameters, is_path(first), 1, __VA_ARGS__)
ON_PATH(mkdir, (const char *path, unsigned mode), path, path, mode)
ON_PATH(rmdir, (const char *path), path, path)
ON_PATH(unlink, (const char *path), path, path)
ON_PATH(rename, (const char *one, const char *other), one, one, other)
ON_PATH(link, (const char *one, const char *other), one, one, other)
ON_PATH(renameat2, (int a, const char *one, int b, const char *other, unsigned flags), one, a, one, b, other, flags)
WHERE(int, -1, unlinkat, (int at, const char *path, int flags), is_at(at, path), 1, at, path, flags)
#define READS(type, name, parameters, first, ...) WHERE(type, -1, name, parameters, is_path(first), 0, __VA_ARGS__)
READS(int, stat, (const char *path, void *found), path, path, found)
READS(int, stat64, (const char *path, void *found), path, path, found)
READS(int, lstat, (const char *path, void *found), path, path, found)
READS(int, lstat64, (const char *path, void *found), path, path, found)
READS(int, access, (const char *path, int mode), path, path, mode)
READS(ssize_t, readlink, (const char *path, char *to, size_t size), path, path, to, size)
WHERE(int, -1, fstatat, (int at, const char *path, void *found, int flags), is_at(at, path), 0, at, path, found, flags)
WHERE(int, -1, fstatat64, (int at, const char *path, void *found, int flags), is_at(at, path), 0, at, path, found, flags)
WHERE(DIR *, NULL, opendir, (const char *path), is_path(path), 0, path)
WHERE(DIR *, NULL, fdopendir, (int file), is_file(file), 0, file)

#define ON_FILE(type, name, parameters, is_write, ...) \
    WHERE(type, -1, name, parameters, is_file(file), is_write, __VA_ARGS__)
ON_FILE(ssize_t, write, (int file, const void *data, size_t size), 1, file, data, size)
ON_FILE(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), 1, file, data, size, at)
ON_FILE(ssize_t, pwrite64, (int file, const void *data, size_t size, off_t at), 1, file, data, size, at)
ON_FILE(ssize_t, read, (int file, void *data, size_t size), 0, file, data, size)
ON_FILE(ssize_t, pread, (int file, void *data, size_t size, off_t at), 0, file, data, size, at)
ON_FILE(ssize_t, pread64, (int file, void *data, size_t size, off_t at), 0, file, data, size, at)
ON_FILE(int, ftruncate, (int file, off_t size), 1, file, size)
ON_FILE(int, ftruncate64, (int file, off_t size), 1, file, size)
ON_FILE(int, fsync, (int file), 1, file)
ON_FILE(int, fstat, (int file, void *found), 0, file, found)
ON_FILE(int, fstat64, (int file, void *found), 0, file, found)

/* A file is closed all the same. */
int close(int file) {
    REAL("close", int);
    int fails = is_file(file) && refused(0), said = errno, answer = real(file);
    if (fails) errno = said;
    return fails ? -1 : answer;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL("clock_gettime", int);
    int answer = real(clock, now);
    if (answer == 0 && clock == CLOCK_REALTIME) now->tv_sec -= back * __sync_add_and_fetch(&asked, 1);
    return answer;
}
