//! Types that are written as text in a file, serialised and read through their `Display` and `FromStr`.

/// Written and read as text; a bare number is refused with a hint.
#[macro_export]
macro_rules! as_text {
    ($($type:ty => $example:literal),+) => {$(
        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl ::serde::de::Visitor<'_> for Visitor {
                    type Value = $type;

                    fn expecting(&self, out: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        write!(out, "text with a unit, such as {}", $example)
                    }

                    fn visit_str<E: ::serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Visitor)
            }
        }
    )+};
}
