"""Parts of the job that makes rows: normal scores, functions of columns, conditions, the mixture, quality, the page."""
