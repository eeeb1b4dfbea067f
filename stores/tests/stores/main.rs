//! The stores keep keywake's contract over real servers, and its promises when those servers fail.

mod servers;
