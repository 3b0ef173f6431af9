// A table of an activation, or of exp(-h): a word that is looked up arrives one cycle later.
module table_rom #(
    parameter WIDTH = 10,
    parameter ADDRESS = 12,
    parameter FILE = "table.hex"
) (
    input wire clk,
    input wire read,
    input wire [ADDRESS-1:0] address,
    output reg [WIDTH-1:0] word
);
    reg [WIDTH-1:0] words [0:(1<<ADDRESS)-1];

    initial $readmemh(FILE, words);

    always @(posedge clk) if (read) word <= words[address];
endmodule
