"""Jobs in one call: from a table to an answer."""
