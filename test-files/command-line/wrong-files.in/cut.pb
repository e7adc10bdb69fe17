
addaddÊ
add(
a	parameter