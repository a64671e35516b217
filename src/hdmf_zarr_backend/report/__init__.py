"""One page about a file, or about two: `page.report`."""
