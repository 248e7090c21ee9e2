#pragma once
struct Rows { float* x; int n; };
void run_halve(Rows in, float** out);
