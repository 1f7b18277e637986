"""The protocol model: the drill's pages and queues, small enough to be explored whole."""
