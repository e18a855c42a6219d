"""How fast this machine trains, translates, reads and exports."""
