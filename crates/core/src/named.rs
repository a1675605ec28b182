//! Enums whose values have names.

/// Defines an enum with a name for each value. `ALL`, `COUNT` and `name` come from its rows.
///
/// ```
/// ioweir_core::named! {
///     /// The state of a door.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Door {
///         /// A way through.
///         Open = "open",
///         /// No way through.
///         Shut = "shut",
///     }
/// }
/// assert_eq!(Door::ALL.map(Door::name), ["open", "shut"]);
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$attribute:meta])* $visible:vis enum $type:ident { $($(#[$about:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$attribute])*
        $visible enum $type { $($(#[$about])* $value,)+ }

        impl $type {
            /// The number of values.
            $visible const COUNT: usize = [$($name),+].len();

            /// Every value, in the order of the discriminants.
            $visible const ALL: [Self; Self::COUNT] = [$(Self::$value),+];

            /// The name in reports, in JSON and on the command line.
            #[must_use]
            $visible const fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)+ }
            }
        }
    };
}
