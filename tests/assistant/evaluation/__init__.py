"""Questions with the facts that an answer must and must not contain, over two data sets."""
