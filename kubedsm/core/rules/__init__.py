"""The rules by which a node is a place for a pod or not, by family; `table` lists them all."""
