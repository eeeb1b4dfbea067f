//! One stream's processor time: brackets around its polls and its synchronous work.
