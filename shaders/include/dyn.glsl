// Push-constant value that stands for "no word of the dynamic buffer".
const uint NO_DYN = 0xFFFFFFFFu;
