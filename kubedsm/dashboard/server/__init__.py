"""The page over HTTP: its files, the stream and the film, and who may have them."""
