//! Queries, read strictly: a parameter that is not known, comes twice where once is meant, or is no UTF-8 is an error. A
//! client that mistypes `from` should not get a stream that begins elsewhere.

use percent_encoding::percent_decode;

use super::error::ApiError;

/// The parameters of a query in order, decoded as forms are: `%xx`, and `+` for a space.
///
/// # Errors
///
/// `bad_query` if one is not UTF-8, or holds a `%` that encodes nothing.
pub(super) fn parameters(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    query.split('&').filter(|pair| !pair.is_empty()).map(parameter).collect()
}

fn parameter(pair: &str) -> Result<(String, String), ApiError> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    Ok((decoded(name)?, decoded(value)?))
}

fn decoded(text: &str) -> Result<String, ApiError> {
    if !is_well_encoded(text) {
        return Err(ApiError::bad_request("bad_query", "the query holds a % that is not followed by two hexadecimal digits"));
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode(spaced.as_bytes()).decode_utf8();
    decoded.map(Into::into).map_err(|_| ApiError::bad_request("bad_query", "the query is not percent-encoded UTF-8"))
}

/// Whether every `%` is followed by two hexadecimal digits.
pub(super) fn is_well_encoded(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

/// Puts a value that may come once into its place.
///
/// # Errors
///
/// `bad_query` if it came before.
pub(super) fn once(place: &mut Option<String>, name: &str, value: String) -> Result<(), ApiError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(ApiError::bad_request("bad_query", format!("{name} is given more than once"))),
    }
}

/// The error for a parameter that the path does not take.
pub(super) fn unknown(name: &str, known: &str) -> ApiError {
    let name: String = name.chars().take(40).collect();
    ApiError::bad_request("unknown_parameter", format!("{name:?} is no parameter of this path; known: {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_sign_that_encodes_nothing_is_refused() {
        for text in ["", "a", "%2F", "a%20b%0aC", "%25"] {
            assert!(is_well_encoded(text), "{text}");
        }
        for text in ["%", "%2", "a%zz", "%%25", "%2Fx%", "%é9"] {
            assert!(!is_well_encoded(text), "{text}");
            assert!(parameters(text).is_err(), "{text}");
        }
    }

    #[test]
    fn parameters_are_decoded_in_order() {
        let pairs = |query| parameters(query).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs(""), []);
        assert_eq!(pairs("&&"), []);
        assert_eq!(pairs("key=a&key=b&from=oldest"), [pair("key", "a"), pair("key", "b"), pair("from", "oldest")]);
        assert_eq!(pairs("k=a%2Fb+c%2B%3D=&flag"), [pair("k", "a/b c+=="), pair("flag", "")]);
        assert_eq!(pairs("%6Bey=%D0%BA"), [pair("key", "к")]);
    }

    #[test]
    fn what_is_no_utf8_or_comes_twice_is_an_error() {
        assert!(parameters("key=%ff").is_err());
        assert!(parameters("%c3=x").is_err());
        let mut place = None;
        assert!(once(&mut place, "from", "a".to_owned()).is_ok());
        assert!(once(&mut place, "from", "a".to_owned()).is_err());
    }
}
