//! What the kernel grants and counts, read from the control groups of Linux.
