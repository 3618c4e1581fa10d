"""numpy, pandas, polars, torch and files: nothing else in jensen knows them."""
