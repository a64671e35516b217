"""One HTML page about a file, or about two: `page.report`."""
