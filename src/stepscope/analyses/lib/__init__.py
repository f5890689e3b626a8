"""What tables of several topics share: events of a trace in order, step marks, call sites."""
