// The local update of one weight, rounded up or down by chance:
//     w <- saturate(w + (u + r >> 16)),  r a random word of 16 bits
// where u is the trace of the synapse times a power of two, or what a controller asks for.
module update_unit #(
    parameter WEIGHT = 12,
    parameter TRACE = 32,
    parameter CHANGE = 30,  // bits of u: WEIGHT + 18 hold all that does not saturate for certain
    parameter SHIFT = 7
) (
    input wire signed [WEIGHT-1:0] weight,
    input wire signed [TRACE-1:0] trace,
    input wire signed [SHIFT-1:0] shift,   // u = 2^shift trace, rounded down
    input wire local_rule,
    input wire signed [CHANGE-1:0] asked,
    input wire [15:0] random,
    output wire signed [WEIGHT-1:0] word,
    output wire clipped
);
    localparam MOST = (1 << (SHIFT - 1)) - 1;  // the largest shift to the left
    localparam WIDE = (TRACE > CHANGE ? TRACE : CHANGE) + MOST;

    wire signed [WIDE-1:0] wide = {{(WIDE - TRACE){trace[TRACE-1]}}, trace};
    wire [SHIFT-1:0] down = -shift;
    wire signed [WIDE-1:0] scaled = shift[SHIFT-1] ? wide >>> down : wide <<< shift;
    wire signed [CHANGE-1:0] earned;
    // A change that leaves these bits saturates every weight, as its limit does.
    /* verilator lint_off PINCONNECTEMPTY */
    saturate #(.IN(WIDE), .OUT(CHANGE)) limit (.value(scaled), .word(earned), .clipped());
    /* verilator lint_on PINCONNECTEMPTY */

    wire signed [CHANGE-1:0] change = local_rule ? earned : asked;
    // Only whole words of the sum are kept.
    /* verilator lint_off UNUSEDSIGNAL */
    wire signed [CHANGE:0] sum =
        {change[CHANGE-1], change} + $signed({{(CHANGE - 15){1'b0}}, random});
    /* verilator lint_on UNUSEDSIGNAL */
    wire signed [CHANGE-15:0] moved = $signed({sum[CHANGE], sum[CHANGE:16]})
        + $signed({{(CHANGE - 14 - WEIGHT){weight[WEIGHT-1]}}, weight});
    saturate #(.IN(CHANGE - 14), .OUT(WEIGHT)) limits (
        .value(moved), .word(word), .clipped(clipped)
    );
endmodule
