// One neuron and its synapses.
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
    parameter TRACE = 33
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
    input wire first,
    input wire learn,
    input wire negate,
    input wire take_own,
    input wire keep,
    input wire restore,
    // A new weight, which starts without a trace.
    input wire write,
    input wire [INDEX-1:0] write_row,
    input wire signed [WEIGHT-1:0] write_weight,
    input wire clear_trace,
    output wire signed [WEIGHT-1:0] weight,
    output wire signed [TRACE-1:0] trace,
    output wire signed [ACC-1:0] total,
    output wire saturated
);
    wire learns = heard & learn & (heard_row < OWNED[INDEX-1:0]);
    wire signed [TRACE-1:0] learnt;

    core_logic #(.WORD(WORD), .OWN(OWN), .WEIGHT(WEIGHT), .ACC(ACC), .TRACE(TRACE)) logic_of (
        .clk(clk), .word(word), .weight(weight), .trace(trace), .add(heard & add), .first(first),
        .learn(learns), .negate(negate), .take_own(take_own), .keep(keep), .restore(restore),
        .learnt(learnt), .total(total), .saturated(saturated)
    );
    word_memory #(.WIDTH(WEIGHT), .DEPTH(ROWS), .ADDRESS(INDEX)) weights (
        .clk(clk), .read(listen), .read_at(row), .read_word(weight),
        .write(write), .write_at(write_row), .write_word(write_weight)
    );
    word_memory #(.WIDTH(TRACE), .DEPTH(OWNED), .ADDRESS(INDEX)) traces (
        .clk(clk), .read(read_trace & (row < OWNED[INDEX-1:0])), .read_at(row), .read_word(trace),
        .write(learns | clear_trace), .write_at(clear_trace ? write_row : heard_row),
        .write_word(clear_trace ? {TRACE{1'b0}} : learnt)
    );
endmodule
