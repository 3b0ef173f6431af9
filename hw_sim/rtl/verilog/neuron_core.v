// One neuron: a multiplier, a saturating accumulator, and its synapses.
//
// In every cycle of a broadcast one word and the row of its sender arrive. While the network settles,
//     total <- saturate(total + word * weight[row])
// and while it learns each synapse adds what its two ends do together,
//     trace[row] <- trace[row] +- word * own
// Rows from OWNED on are copies of weights that other cores own: they send, and do not learn.
module neuron_core #(
    parameter ROWS = 8,
    parameter OWNED = 6,
    parameter INDEX = 4,
    parameter WORD = 12,
    parameter OWN = 11,
    parameter WEIGHT = 12,
    parameter ACC = 32,
    parameter TRACE = 32
) (
    input wire clk,
    // Its synapses are read at a row, and answer in the next cycle, in which the sender's word is there.
    input wire listen,
    input wire read_trace,
    input wire [INDEX-1:0] row,
    input wire heard,                    // it listened in the cycle before, to this row:
    input wire [INDEX-1:0] heard_row,
    input wire signed [WORD-1:0] word,
    input wire add,                      // what is done with the word
    input wire first,                    // the accumulator begins at zero
    input wire learn,
    input wire negate,
    input wire take_own,                 // the word is its own state or error
    input wire keep,                     // the accumulator is the drive of this sample
    input wire restore,                  // the accumulator begins at the drive
    // A new weight, which starts without a trace.
    input wire write,
    input wire [INDEX-1:0] write_row,
    input wire signed [WEIGHT-1:0] write_weight,
    input wire clear_trace,
    output wire signed [WEIGHT-1:0] weight,
    output wire signed [TRACE-1:0] trace,
    output reg signed [ACC-1:0] total,
    output reg saturated
);
    localparam FACTOR = OWN > WEIGHT ? OWN : WEIGHT;
    localparam PRODUCT = WORD + FACTOR;
    localparam SUM = (ACC > PRODUCT ? ACC : PRODUCT) + 1;

    reg signed [ACC-1:0] drive;
    reg signed [OWN-1:0] own;

    // One multiplier, which settling and learning share.
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

    wire adds = heard & add;
    always @(posedge clk) begin
        saturated <= adds & overflow;
        if (adds) total <= clipped_sum;
        else if (restore) total <= drive;
        if (keep) drive <= total;
        if (take_own) own <= word[OWN-1:0];
    end

    word_memory #(.WIDTH(WEIGHT), .DEPTH(ROWS), .ADDRESS(INDEX)) weights (
        .clk(clk), .read(listen), .read_at(row), .read_word(weight),
        .write(write), .write_at(write_row), .write_word(write_weight)
    );

    // Only a product that is learnt moves the wide adder.
    wire signed [TRACE-1:0] together =
        learn ? {{(TRACE - PRODUCT){product[PRODUCT-1]}}, product} : {TRACE{1'b0}};
    wire learns = heard & learn & (heard_row < OWNED[INDEX-1:0]);
    word_memory #(.WIDTH(TRACE), .DEPTH(OWNED), .ADDRESS(INDEX)) traces (
        .clk(clk), .read(read_trace & (row < OWNED[INDEX-1:0])), .read_at(row), .read_word(trace),
        .write(learns | clear_trace), .write_at(clear_trace ? write_row : heard_row),
        .write_word(clear_trace ? {TRACE{1'b0}} : negate ? trace - together : trace + together)
    );
endmodule
