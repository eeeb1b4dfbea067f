//! How many instances there should be: what each driver asks for, and which of them wins.
