// What fair_queue needs of the rest of seastar, so that it compiles alone.
#pragma once
#include <memory>
#include <ostream>
#include <string>
#include <vector>
namespace seastar {
using sstring = std::string;
}
