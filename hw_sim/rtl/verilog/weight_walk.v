// Goes through all weights in the order in which they are stored outside, block by block and row by
// row. A symmetric block is walked along its upper triangle: after w_ij comes its partner w_ji, which
// shares its random word. A block that is read both ways has a copy of each weight in another core.
module weight_walk #(
    parameter INDEX = 4
) (
    input wire clk,
    input wire begin_walk,
    input wire next,
    // The block, from the map of the network.
    output reg [INDEX-1:0] block,
    input wire [INDEX-1:0] last_row,
    input wire [INDEX-1:0] last_column,
    input wire [INDEX-1:0] first_core,   // of the first column
    input wire [INDEX-1:0] base,         // row of a core where the block begins
    input wire symmetric,
    input wire [INDEX-1:0] copy_core,    // of the first row, for the copy
    input wire [INDEX-1:0] copy_base,
    input wire last_block,
    output wire [INDEX-1:0] core,
    output wire [INDEX-1:0] at,
    output wire [INDEX-1:0] copy_at_core,
    output wire [INDEX-1:0] copy_at,
    output wire draws,                   // the weight has a random word of its own
    output wire is_last
);
    reg [INDEX-1:0] row;
    reg [INDEX-1:0] column;
    reg partner;

    wire pair_follows = symmetric & ~partner & (row != column);
    wire row_ends = (column == last_column) & ~pair_follows;
    wire block_ends = row_ends & (row == last_row);

    assign core = first_core + (partner ? row : column);
    assign at = base + (partner ? column : row);
    assign copy_at_core = copy_core + row;
    assign copy_at = copy_base + column;
    assign draws = ~partner;
    assign is_last = block_ends & last_block;

    always @(posedge clk)
        if (begin_walk) begin
            block <= {INDEX{1'b0}};
            row <= {INDEX{1'b0}};
            column <= {INDEX{1'b0}};
            partner <= 1'b0;
        end else if (next) begin
            partner <= pair_follows;
            if (block_ends) begin
                block <= block + 1'b1;
                row <= {INDEX{1'b0}};
                column <= {INDEX{1'b0}};
            end else if (row_ends) begin
                row <= row + 1'b1;
                column <= symmetric ? row + 1'b1 : {INDEX{1'b0}};
            end else if (!pair_follows) column <= column + 1'b1;
        end
endmodule
