//! Rules of mirrors, one by one.
