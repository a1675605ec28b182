#pragma once
namespace fmt {
template <typename T> struct formatter;
struct ostream_formatter {};
}
