"""What is seen of the cluster: rows of tables, kept up to date, and the words in them."""
