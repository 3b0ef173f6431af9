// Memory with a port to read and a port to write; a word that is read arrives one cycle later.
// Replace it by a memory macro of the same ports.

// All addresses of the chip are equally wide, and none is beyond the depth.
/* verilator lint_off WIDTH */
/* verilator lint_off UNUSEDSIGNAL */
module word_memory #(
    parameter WIDTH = 8,
    parameter DEPTH = 16,
    parameter ADDRESS = 4
) (
    input wire clk,
    input wire read,
    input wire [ADDRESS-1:0] read_at,
    output reg [WIDTH-1:0] read_word,
    input wire write,
    input wire [ADDRESS-1:0] write_at,
    input wire [WIDTH-1:0] write_word
);
    reg [WIDTH-1:0] words [0:DEPTH-1];

    always @(posedge clk) begin
        if (read) read_word <= words[read_at];
        if (write) words[write_at] <= write_word;
    end
endmodule
/* verilator lint_on UNUSEDSIGNAL */
/* verilator lint_on WIDTH */
