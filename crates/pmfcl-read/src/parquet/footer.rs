//! Whether the footer of a Parquet file can be parsed in the time that its size suggests.
//!
//! The parser takes booleans in a list or map it does not know to be of no size at all. Five bytes that
//! announce two billion of them keep it busy for seconds, and a list of such lists for hours. No footer has
//! lists of booleans, so they are refused before it is parsed; everything else takes a byte at least.

/// As deep as the parser follows.
const DEEPEST: usize = 64;

/// Whether these bytes are a struct in Thrift's compact protocol without lists of booleans.
pub(crate) fn is_sound(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    skip(&mut rest, STRUCT, DEEPEST).is_some()
}

/// How many of these bytes are the struct they begin with; `None` where they do not hold all of it.
pub(crate) fn struct_len(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    skip(&mut rest, STRUCT, DEEPEST)?;
    Some(bytes.len() - rest.len())
}

const STRUCT: u8 = 12;

/// Moves `rest` behind a value of this type.
fn skip(rest: &mut &[u8], kind: u8, depth: usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match kind {
        // The value of a truth field is its type.
        1 | 2 => Some(()),
        3 => advance(rest, 1),
        4..=6 => varint(rest).map(|_| ()),
        7 => advance(rest, 8),
        8 => {
            let len = usize::try_from(varint(rest)?).ok()?;
            advance(rest, len)
        }
        9 | 10 => {
            let head = byte(rest)?;
            let count = if head >> 4 == 15 { varint(rest)? } else { u64::from(head >> 4) };
            many(rest, count, &[head & 15], depth)
        }
        11 => match varint(rest)? {
            0 => Some(()),
            count => {
                let kinds = byte(rest)?;
                many(rest, count, &[kinds >> 4, kinds & 15], depth)
            }
        },
        STRUCT => loop {
            let head = byte(rest)?;
            let (step, kind) = (head >> 4, head & 15);
            if kind == 0 {
                return Some(());
            }
            if step == 0 {
                varint(rest)?;
            }
            skip(rest, kind, depth)?;
        },
        13 => advance(rest, 16),
        _ => None,
    }
}

/// Moves `rest` behind the entries of a list or map.
fn many(rest: &mut &[u8], count: u64, kinds: &[u8], depth: usize) -> Option<()> {
    if count > 0 && kinds.iter().any(|kind| (1..=2).contains(kind)) {
        return None;
    }
    for _ in 0..count {
        for kind in kinds {
            skip(rest, *kind, depth)?;
        }
    }
    Some(())
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    Some(*first)
}

fn advance(rest: &mut &[u8], n: usize) -> Option<()> {
    *rest = rest.get(n..)?;
    Some(())
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let part = byte(rest)?;
        value |= u64::from(part & 0x7f) << shift;
        if part & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_truth_values_are_refused_however_deep() {
        assert!(is_sound(&[0x15, 2, 0]), "a number");
        assert!(is_sound(&[0x19, 0x25, 2, 4, 0]), "a list of two");
        assert!(is_sound(&[0x19, 0x02, 0x11, 0]), "an empty list, a truth field");
        assert!(is_sound(&[0x05, 0x7f, 2, 0]), "a field by its number");
        let many = [0xf2, 0xff, 0xff, 0xff, 0xff, 0x07];
        assert!(!is_sound(&[&[0x19][..], &many, &[0]].concat()));
        assert!(!is_sound(&[&[0x19, 0x19][..], &many, &[0]].concat()), "in a list");
        assert!(!is_sound(&[&[0x1c, 0x19][..], &many, &[0, 0]].concat()), "in a struct");
        assert!(!is_sound(&[0x1b, 0xff, 0xff, 0xff, 0xff, 0x07, 0x11, 0]), "as a map");
        assert!(!is_sound(&[0x15]), "cut off");
        assert!(!is_sound(&[0x19; 200]), "too deep");
    }
}
