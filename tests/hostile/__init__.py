"""Files that want to do harm, made by machine: seeds, a mutator, a child process that reads what comes out."""
