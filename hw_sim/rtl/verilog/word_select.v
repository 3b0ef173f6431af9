// One word out of a row of words.
module word_select #(
    parameter WIDTH = 8,
    parameter COUNT = 4,
    parameter INDEX = 2
) (
    input wire [COUNT*WIDTH-1:0] words,
    input wire [INDEX-1:0] index,
    output wire [WIDTH-1:0] word
);
    // All indices of the chip are equally wide, and none is beyond the last word.
    /* verilator lint_off WIDTH */
    assign word = words[index*WIDTH+:WIDTH];
    /* verilator lint_on WIDTH */
endmodule
