"""One pytest run: what pytest's hooks hand on to. Everything here is about order, processes and files, nothing about devices."""
