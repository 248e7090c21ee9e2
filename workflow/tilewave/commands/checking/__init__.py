"""What `tilewave check` consists of, from the files of a user to the sentence of a verdict."""
