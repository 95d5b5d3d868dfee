"""Commands of `bench` that read finished runs, one file each."""
