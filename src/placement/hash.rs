//! The hash that places every owner that has no row, frozen.
//!
//! It is a protocol between all processes and all releases: two that disagree on one owner run it twice, or not at all. So it is an algorithm
//! with a published standard, over explicit bytes, never `impl Hash` (`str` feeds a byte 0xff behind its own); and its number is kept beside
//! the table, so that a change of it is a migration.

use blake2::{Blake2s256, Digest};

/// The number of [`placement_hash`], kept with every table. A release that hashed differently would have another.
pub const HASH_VERSION: u32 = 1;

/// The first eight bytes of BLAKE2s-256 of `owner`, big-endian.
///
/// BLAKE2s-256 is RFC 7693's, without key. (The digest's length goes into it: BLAKE2s with a digest of eight bytes is another function.)
///
/// # Examples
/// ```
/// use keywake::placement::placement_hash;
/// assert_eq!(placement_hash(b"42"), 0xcf01_c9d9_de8c_f143);
/// ```
#[must_use]
pub fn placement_hash(owner: &[u8]) -> u64 {
    let digest: [u8; 32] = Blake2s256::digest(owner).into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}
