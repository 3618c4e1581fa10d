"""How missing values are found: several models of the same table, judged on hidden entries and averaged by column."""
