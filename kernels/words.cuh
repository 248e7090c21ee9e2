// The macro that a prefix and another macro's value name: where LEVEL is l2, NAMED(LEVEL_, LEVEL) is LEVEL_l2.
// So the preprocessor can compare words, by the numbers that they are defined as.

#pragma once

#define JOINED(left, right) left##right
#define NAMED(prefix, word) JOINED(prefix, word)
