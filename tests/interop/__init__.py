"""Other libraries and the peers on our files, and ours on theirs."""
