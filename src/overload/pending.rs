//! Who waits to come in: a queue bounded in length and in time.
