//! The text form of positions.

use keywake::Position;

/// Parses any text: it never panics, what it accepts prints back identically, and positions order by their numbers.
///
/// # Panics
/// Where one of these does not hold.
pub fn check_position(text: &str) {
    if let Ok(position) = text.parse::<Position>() {
        assert_eq!(position.to_string(), text, "one text per position");
        check_parts(position.epoch(), position.seq());
    }
    // The same from the other side: numbers taken from the text, which the parser must find again.
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |n, byte| n.rotate_left(8) ^ u64::from(*byte));
    let (epoch, seq) = text.as_bytes().split_at(text.len() / 2);
    check_parts(number(epoch), number(seq));
}

fn check_parts(epoch: u64, seq: u64) {
    let position = Position::new(epoch, seq);
    assert_eq!(position.epoch(), epoch);
    assert_eq!(position.seq(), seq.min(Position::MAX_SEQ));
    assert_eq!(position.to_string().parse(), Ok(position), "round trip");
    let other = Position::new(epoch, seq / 2 + 1);
    assert_eq!(position.partial_cmp(&other), Some(position.seq().cmp(&other.seq())), "ordered within an epoch");
    let foreign = Position::new(epoch.wrapping_add(1), seq);
    assert_eq!(position.partial_cmp(&foreign), None, "not ordered between epochs");
    assert_ne!(position, foreign);
}
