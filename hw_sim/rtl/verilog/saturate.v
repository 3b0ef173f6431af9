// Clips a value to a narrower word. The limits are symmetric: no word holds -2^(OUT-1).
module saturate #(
    parameter IN = 9,
    parameter OUT = 8
) (
    input wire signed [IN-1:0] value,
    output wire signed [OUT-1:0] word,
    output wire clipped
);
    localparam signed [IN-1:0] HIGH = {{(IN - OUT + 1){1'b0}}, {(OUT - 1){1'b1}}};
    localparam signed [IN-1:0] LOW = -HIGH;

    wire above = value > HIGH;
    wire below = value < LOW;
    assign clipped = above | below;
    assign word = above ? HIGH[OUT-1:0] : below ? LOW[OUT-1:0] : value[OUT-1:0];
endmodule
