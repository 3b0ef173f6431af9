// @TITLE@
// One core for each unit and each output, and of everything else one. Written by hw_sim/rtl; docs/rtl.md
// has the schedule. One clock, synchronous reset; a command begins with `start` while not `busy`.
module settle_chip #(
    parameter INPUTS = @INPUTS@,
    parameter UNITS = @UNITS@,
    parameter OUTPUTS = @OUTPUTS@,
    parameter FIRST = @FIRST@,          // units that are read: from FIRST to LAST
    parameter LAST = @LAST@,
    parameter DIRECT = @DIRECT@,         // the units that are read are the outputs
    parameter CORES = @CORES@,
    parameter STATE = @STATE@,         // bits of a state,
    parameter WEIGHT = @WEIGHT@,        // of a weight,
    parameter ACC = @ACC@,           // of an accumulator,
    parameter WORD = @WORD@,          // of a word that is broadcast: an input, a state or an error,
    parameter TARGET = @TARGET@,        // of a target,
    parameter TRACE = @TRACE@,         // and of what a synapse adds up
    parameter FRACTION = @FRACTION@,      // bits of a weight after the point
    parameter ADDRESS = @ADDRESS@,       // bits of the address of an activation
    parameter DROPPED = @DROPPED@,       // bits of an accumulator below that address
    parameter GAIN = @GAIN@,          // bits of the nudge, 12 of them after the point
    parameter PULL = @PULL@,          // bits of what nudges a unit
    parameter HOST = @HOST@,          // bits of a word from outside
    parameter SHIFT = 7,          // bits of a learning rate, the power of two of a trace
    parameter COUNT = 16,         // bits of a number of steps
    parameter INDEX = @INDEX@          // bits of every index
) (
    input wire clk,
    input wire rst,
    input wire start,
    input wire [3:0] command,
    input wire signed [GAIN-1:0] gain,
    input wire [COUNT-1:0] step_limit,
    input wire [STATE:0] tolerance,
    input wire negate,                      // traces are subtracted
    input wire signed [SHIFT-1:0] rate,     // of couplings between units
    input wire signed [SHIFT-1:0] read_rate,
    input wire [31:0] seed,
    output wire busy,
    input wire given,                       // weights, samples, updates: one word after the other
    input wire signed [HOST-1:0] given_word,
    output wire takes,
    output wire [COUNT-1:0] steps,
    output wire [STATE:0] gap,
    // For who watches; may be left open.
    output wire state_seen,
    output wire signed [STATE-1:0] state_word,
    output wire drive_seen,
    output wire signed [ACC-1:0] drive_word,
    output wire own_seen,
    output wire signed [WORD-1:0] own_word,
    output wire error_seen,
    output wire signed [STATE:0] error_word,
    output wire weight_seen,
    output wire signed [WEIGHT-1:0] weight_word,
    output wire [CORES-1:0] core_saturated,
    output wire scan_saturated,
    output wire weight_saturated
);
    localparam [1:0] ONE = 2'd0, INPUT = 2'd1, UNIT = 2'd2, ERROR = 2'd3;
    localparam F = STATE - 1;

    // ---- What happens when ----
    wire [1:0] kind, here, there;
    wire [INDEX-1:0] index, sample_index;
    wire to_outputs, add, first, learn, take_own, keep, restore, scan_begin, scan, scale, nudged, fresh;
    wire softmax_start, use_target, softmax_done, take_input, take_target;
    wire walk_begin, walk_write, walk_draw, walk_is_last, loading, local_rule;
    control #(
        .INPUTS(INPUTS), .UNITS(UNITS), .OUTPUTS(OUTPUTS), .FIRST(FIRST), .LAST(LAST),
        .DIRECT(DIRECT), .INDEX(INDEX), .STATE(STATE), .COUNT(COUNT)
    ) sequence_of_sweeps (
        .clk(clk), .rst(rst), .start(start), .command(command), .step_limit(step_limit),
        .tolerance(tolerance), .busy(busy), .kind(kind), .index(index), .to_outputs(to_outputs),
        .add(add), .first(first), .learn(learn), .take_own(take_own), .keep(keep),
        .restore(restore), .scan_begin(scan_begin), .scan(scan), .scale(scale), .nudged(nudged),
        .fresh(fresh), .gap(gap), .softmax_start(softmax_start), .use_target(use_target),
        .softmax_done(softmax_done), .here(here), .there(there), .steps(steps), .given(given),
        .takes(takes), .take_input(take_input), .take_target(take_target),
        .sample_index(sample_index), .walk_begin(walk_begin), .walk_write(walk_write),
        .walk_draw(walk_draw), .walk_is_last(walk_is_last), .loading(loading),
        .local_rule(local_rule)
    );

    // ---- The sample, the states and the errors ----
    wire looking, found;
    wire [INDEX-1:0] looking_index, found_index;
    wire signed [STATE-1:0] looked_up, state;
    wire signed [WORD-1:0] input_read;
    wire signed [TARGET-1:0] target;
    wire signed [STATE:0] error_read;
    wire [INDEX-1:0] output_index;
    function [INDEX+1:0] begin_of(input [1:0] place);  // three places of UNITS words
        begin_of = place == 2'd0 ? {(INDEX + 2){1'b0}} :
            place == 2'd1 ? {2'b00, UNITS[INDEX-1:0]} : {1'b0, UNITS[INDEX-1:0], 1'b0};
    endfunction
    wire [INDEX+1:0] state_at = begin_of(here) + {2'b00, looking ? looking_index : index};
    word_memory #(.WIDTH(WORD), .DEPTH(INPUTS), .ADDRESS(INDEX)) inputs (
        .clk(clk), .read(kind == INPUT), .read_at(index), .read_word(input_read),
        .write(take_input), .write_at(sample_index), .write_word(given_word[WORD-1:0])
    );
    word_memory #(.WIDTH(TARGET), .DEPTH(OUTPUTS), .ADDRESS(INDEX)) targets (
        .clk(clk), .read(1'b1), .read_at(scale ? index - FIRST[INDEX-1:0] : output_index),
        .read_word(target),
        .write(take_target), .write_at(sample_index), .write_word(given_word[TARGET-1:0])
    );
    word_memory #(.WIDTH(STATE), .DEPTH(3 * UNITS), .ADDRESS(INDEX + 2)) states (
        .clk(clk), .read(1'b1), .read_at(state_at), .read_word(state),
        .write(found), .write_at(begin_of(there) + {2'b00, found_index}), .write_word(looked_up)
    );
    word_memory #(.WIDTH(STATE + 1), .DEPTH(OUTPUTS), .ADDRESS(INDEX)) errors (
        .clk(clk), .read(kind == ERROR), .read_at(index), .read_word(error_read),
        .write(error_seen), .write_at(output_index), .write_word(error_word)
    );

    // ---- The broadcast: the word follows its row by a cycle ----
    reg [1:0] kind_sent;
    reg [INDEX-1:0] index_sent;
    reg add_sent, first_sent, learn_sent, own_sent, outputs_sent;
    always @(posedge clk) begin
        kind_sent <= kind;
        index_sent <= index;
        add_sent <= add;
        first_sent <= first;
        learn_sent <= learn;
        own_sent <= take_own;
        outputs_sent <= to_outputs;
    end
    wire signed [WORD-1:0] word =
        kind_sent == ONE ? {{(WORD - F - 1){1'b0}}, 1'b1, {F{1'b0}}} :
        kind_sent == INPUT ? input_read :
        kind_sent == UNIT ? {{(WORD - STATE){state[STATE-1]}}, state} :
        {{(WORD - STATE){error_read[STATE]}}, error_read[STATE-1:0]};
    assign own_seen = own_sent;
    assign own_word = word;

    // ---- The walk over all weights ----
    wire [INDEX-1:0] block, core, at, copy_at_core, copy_at;
    reg [INDEX-1:0] last_row, last_column, first_core, base, copy_core, copy_base;
    reg symmetric, copied, last_block, is_read_out;
    wire draws;
    always @* begin
        last_row = {INDEX{1'b0}};
        last_column = {INDEX{1'b0}};
        first_core = {INDEX{1'b0}};
        base = {INDEX{1'b0}};
        copy_core = {INDEX{1'b0}};
        copy_base = {INDEX{1'b0}};
        symmetric = 1'b0;
        copied = 1'b0;
        is_read_out = 1'b0;
        last_block = 1'b0;
        case (block)
@BLOCKS@
            default: ;
        endcase
    end
    weight_walk #(.INDEX(INDEX)) walk (
        .clk(clk), .begin_walk(walk_begin), .next(walk_write), .block(block), .last_row(last_row),
        .last_column(last_column), .first_core(first_core), .base(base), .symmetric(symmetric),
        .copy_core(copy_core), .copy_base(copy_base), .last_block(last_block), .core(core),
        .at(at), .copy_at_core(copy_at_core), .copy_at(copy_at), .draws(draws),
        .is_last(walk_is_last)
    );

    // ---- The update of one weight ----
    wire [CORES*WEIGHT-1:0] weights;
    wire [CORES*TRACE-1:0] traces;
    wire [WEIGHT-1:0] weight;
    wire [TRACE-1:0] trace;
    word_select #(.WIDTH(WEIGHT), .COUNT(CORES), .INDEX(INDEX)) one_weight (
        .words(weights), .index(core), .word(weight)
    );
    word_select #(.WIDTH(TRACE), .COUNT(CORES), .INDEX(INDEX)) one_trace (
        .words(traces), .index(core), .word(trace)
    );
    wire [15:0] random;
    xorshift noise (
        .clk(clk), .load(start && !busy && command == 4'd1), .seed(seed), .draw(walk_draw & draws),
        .word(random)
    );
    reg signed [HOST-1:0] asked;
    always @(posedge clk) if (given) asked <= given_word;
    wire signed [WEIGHT-1:0] updated;
    wire out_of_range;
    // The traces of both weights of a symmetric pair hold the whole product: each takes its half.
    wire signed [SHIFT-1:0] shift = is_read_out ? read_rate :
        symmetric ? rate - $signed({{(SHIFT - 1){1'b0}}, 1'b1}) : rate;
    update_unit #(.WEIGHT(WEIGHT), .TRACE(TRACE), .CHANGE(HOST), .SHIFT(SHIFT)) update (
        .weight(weight), .trace(trace), .shift(shift), .local_rule(local_rule), .asked(asked),
        .random(random), .word(updated), .clipped(out_of_range)
    );
    assign weight_word = loading ? asked[WEIGHT-1:0] : updated;
    assign weight_seen = walk_write;
    assign weight_saturated = walk_write & ~loading & out_of_range;
    wire walking = walk_write | takes | local_rule;

    // ---- The cores ----
    wire [CORES*ACC-1:0] totals;
    genvar j;
@LAYERS@

    // ---- The nudge ----
    wire signed [ACC-1:0] total;
    wire signed [PULL-1:0] new_pull, pull;
    wire scaled;
    wire [INDEX-1:0] scaled_index;
    word_select #(.WIDTH(ACC), .COUNT(CORES), .INDEX(INDEX)) one_total (
        .words(totals), .index(index), .word(total)
    );
    nudge_unit #(
        .DIRECT(DIRECT), .INDEX(INDEX), .STATE(STATE), .TARGET(TARGET), .ACC(ACC), .GAIN(GAIN),
        .FRACTION(FRACTION), .PULL(PULL)
    ) nudge (
        .clk(clk), .enter(scale), .index(index), .gain(gain), .total(total), .state(state),
        .target(target), .found(scaled), .found_index(scaled_index), .pull(new_pull)
    );
    word_memory #(.WIDTH(PULL), .DEPTH(LAST + 1), .ADDRESS(INDEX)) pulls (
        .clk(clk), .read(scan), .read_at(index), .read_word(pull),
        .write(scaled), .write_at(scaled_index), .write_word(new_pull)
    );

    // ---- The activation ----
    wire [ADDRESS-1:0] address;
    wire entered;
    activation_unit #(
        .INDEX(INDEX), .STATE(STATE), .ACC(ACC), .PULL(PULL), .SHIFT(DROPPED), .ADDRESS(ADDRESS)
    ) activation (
        .clk(clk), .begin_scan(scan_begin), .enter(scan), .index(index),
        .pulled(nudged && index - FIRST[INDEX-1:0] <= LAST[INDEX-1:0] - FIRST[INDEX-1:0]),
        .total(total), .pull(pull), .looking(looking), .address(address), .looking_index(looking_index),
        .looked_up(looked_up), .state(state), .found(found), .found_index(found_index), .gap(gap),
        .entered(entered), .entered_total(drive_word), .saturated(scan_saturated)
    );
    assign drive_seen = entered & fresh;
    assign state_seen = found;
    assign state_word = looked_up;
@TABLES@

    // ---- The read-out ----
@READOUT@
endmodule
