// What a neuron calculates with: one multiplier, which settling and learning share, a saturating
// accumulator, and the adder of the traces. Its memories lie beside it, in `neuron_core`.
module core_logic #(
    parameter WORD = 12,
    parameter OWN = 11,
    parameter WEIGHT = 12,
    parameter ACC = 32,
    parameter TRACE = 33
) (
    input wire clk,
    input wire signed [WORD-1:0] word,      // of the sender
    input wire signed [WEIGHT-1:0] weight,  // from the sender
    input wire signed [TRACE-1:0] trace,
    input wire add,                         // total <- saturate(total + word * weight),
    input wire first,                       // from zero
    input wire learn,                       // learnt = trace +- word * own
    input wire negate,
    input wire take_own,                    // the word is its own state or error
    input wire keep,                        // the accumulator is the drive of this sample
    input wire restore,                     // the accumulator begins at the drive
    output wire signed [TRACE-1:0] learnt,
    output reg signed [ACC-1:0] total,
    output reg saturated
);
    localparam FACTOR = OWN > WEIGHT ? OWN : WEIGHT;
    localparam PRODUCT = WORD + FACTOR;
    localparam SUM = (ACC > PRODUCT ? ACC : PRODUCT) + 1;

    reg signed [ACC-1:0] drive;
    reg signed [OWN-1:0] own;

    wire signed [FACTOR-1:0] factor = learn ?
        {{(FACTOR - OWN + 1){own[OWN-1]}}, own[OWN-2:0]} :
        {{(FACTOR - WEIGHT + 1){weight[WEIGHT-1]}}, weight[WEIGHT-2:0]};
    wire signed [PRODUCT-1:0] product = word * factor;

    wire signed [SUM-1:0] start = first ? {SUM{1'b0}} : {{(SUM - ACC){total[ACC-1]}}, total};
    wire signed [SUM-1:0] sum = start + {{(SUM - PRODUCT){product[PRODUCT-1]}}, product};
    wire signed [ACC-1:0] clipped_sum;
    wire overflow;
    saturate #(.IN(SUM), .OUT(ACC)) accumulator (
        .value(sum), .word(clipped_sum), .clipped(overflow)
    );

    always @(posedge clk) begin
        saturated <= add & overflow;
        if (add) total <= clipped_sum;
        else if (restore) total <= drive;
        if (keep) drive <= total;
        if (take_own) own <= word[OWN-1:0];
    end

    // Only a product that is learnt moves the wide adder.
    wire signed [TRACE-1:0] together =
        learn ? {{(TRACE - PRODUCT){product[PRODUCT-1]}}, product} : {TRACE{1'b0}};
    assign learnt = negate ? trace - together : trace + together;
endmodule
