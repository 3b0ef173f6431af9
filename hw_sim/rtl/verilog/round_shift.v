// Divides by 2^SHIFT and rounds to the nearest whole number, halves up.
module round_shift #(
    parameter IN = 16,   // more than SHIFT
    parameter SHIFT = 4,
    parameter OUT = IN - SHIFT + 1
) (
    // The bits below the rounding are dropped.
    /* verilator lint_off UNUSEDSIGNAL */
    input wire signed [IN-1:0] value,
    /* verilator lint_on UNUSEDSIGNAL */
    output wire signed [OUT-1:0] word
);
    generate
        if (SHIFT == 0) begin : exact
            assign word = {value[IN-1], value};
        end else begin : nearest
            // floor(v / 2^S + 1/2) is the floor of v / 2^S and the first bit below it.
            wire signed [OUT-1:0] floor = {value[IN-1], value[IN-1:SHIFT]};
            assign word = floor + $signed({{(OUT - 1){1'b0}}, value[SHIFT-1]});
        end
    endgenerate
endmodule
