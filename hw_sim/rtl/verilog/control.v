// What happens when. A command is a row of sweeps; in a sweep one word after the other is broadcast to
// all cores, or one unit after the other passes a shared unit. Four cycles after each sweep let the
// pipelines run empty.
//
//   FREE           bias, inputs: the drive; start at its activation; steps until nothing moves
//   NUDGE          steps from the free state, with a gain
//   a step         errors, where nudged; all units to all units; activations; then stop or go on
//   READ           outputs at the free state
//   LEARN          traces +- products of the state that was found last, with its inputs and units
//   LEARN_READOUT  traces of the read-out - products of errors and units, at the free state
module control #(
    parameter INPUTS = 4,
    parameter UNITS = 6,
    parameter OUTPUTS = 3,
    parameter FIRST = 0,     // units that are read: from FIRST to LAST
    parameter LAST = 5,
    parameter DIRECT = 0,    // the units that are read are the outputs
    parameter INDEX = 4,
    parameter STATE = 10,
    parameter COUNT = 16
) (
    input wire clk,
    input wire rst,
    input wire start,
    input wire [3:0] command,
    input wire [COUNT-1:0] step_limit,   // at least one
    input wire [STATE:0] tolerance,
    output wire busy,
    // Broadcasts: whose word, and what the cores do with it.
    output reg [1:0] kind,
    output reg [INDEX-1:0] index,
    output reg to_outputs,               // the cores of the read-out listen, otherwise those of units
    output reg add,
    output reg first,
    output reg learn,
    output reg take_own,
    output wire keep,
    output wire restore,
    // One unit after the other.
    output wire scan_begin,
    output wire scan,
    output wire scale,
    output wire nudged,
    output wire fresh,                   // activations of the drive, which no state precedes
    input wire [STATE:0] gap,
    output wire softmax_start,
    output wire use_target,
    input wire softmax_done,
    output reg [1:0] here,               // where the state lies, and its next one
    output wire [1:0] there,
    output reg [COUNT-1:0] steps,
    // From outside.
    input wire given,
    output wire takes,
    output wire take_input,
    output wire take_target,
    output wire [INDEX-1:0] sample_index,
    output wire walk_begin,
    output wire walk_write,
    output wire walk_draw,
    input wire walk_is_last,
    output wire loading,
    output wire local_rule
);
    localparam LOAD = 4'd1, SAMPLE = 4'd2, FREE = 4'd3, NUDGE = 4'd4, READ = 4'd5, LEARN = 4'd6,
        LEARN_READOUT = 4'd7, UPDATE = 4'd8, UPDATE_AS_ASKED = 4'd9;
    localparam IDLE = 3'd0, SWEEP = 3'd1, DRAIN = 3'd2, SOFTMAX = 3'd3, TAKE = 3'd4, FETCH = 3'd5,
        WRITE = 3'd6;
    localparam DRIVE_BIAS = 4'd0, DRIVE_INPUTS = 4'd1, SCAN_DRIVE = 4'd2, LOGIT_BIAS = 4'd3,
        LOGIT_UNITS = 4'd4, PULL_ERRORS = 4'd5, SCALE = 4'd6, STEP_UNITS = 4'd7, SCAN_STEP = 4'd8,
        OWN_UNITS = 4'd9, LEARN_BIAS = 4'd10, LEARN_INPUTS = 4'd11, LEARN_UNITS = 4'd12,
        OWN_ERRORS = 4'd13, OUT_BIAS = 4'd14, OUT_UNITS = 4'd15;
    localparam [1:0] ONE = 2'd0, INPUT = 2'd1, UNIT = 2'd2, ERROR = 2'd3;
    localparam [INDEX-1:0] NONE = {INDEX{1'b0}};
    localparam [INDEX-1:0] LAST_INPUT = INPUTS[INDEX-1:0] - 1'b1;
    localparam [INDEX-1:0] LAST_UNIT = UNITS[INDEX-1:0] - 1'b1;
    localparam [INDEX-1:0] LAST_OUTPUT = OUTPUTS[INDEX-1:0] - 1'b1;
    localparam [INDEX-1:0] READ_FIRST = FIRST[INDEX-1:0];
    localparam [INDEX-1:0] READ_LAST = LAST[INDEX-1:0];
    localparam [1:0] DRAINED = 2'd3;

    reg [2:0] doing;
    reg [3:0] stage;
    reg [3:0] order;
    reg [1:0] waited;
    reg [1:0] free;
    reg taking_targets;

    // What a sweep is, by its stage.
    reg [INDEX-1:0] sweep_last;
    always @* begin
        kind = ONE;
        sweep_last = LAST_UNIT;
        to_outputs = 1'b0;
        add = 1'b0;
        first = 1'b0;
        learn = 1'b0;
        take_own = 1'b0;
        case (stage)
            DRIVE_BIAS: begin sweep_last = NONE; add = 1'b1; first = 1'b1; end
            DRIVE_INPUTS: begin kind = INPUT; sweep_last = LAST_INPUT; add = 1'b1; end
            LOGIT_BIAS: begin
                sweep_last = NONE; to_outputs = 1'b1; add = 1'b1; first = 1'b1;
            end
            LOGIT_UNITS: begin kind = UNIT; sweep_last = READ_LAST; to_outputs = 1'b1; add = 1'b1; end
            PULL_ERRORS: begin
                kind = ERROR; sweep_last = LAST_OUTPUT; add = 1'b1; first = index == NONE;
            end
            SCALE: sweep_last = READ_LAST;
            STEP_UNITS: begin kind = UNIT; add = 1'b1; end
            OWN_UNITS: begin kind = UNIT; take_own = 1'b1; end
            LEARN_BIAS: begin sweep_last = NONE; learn = 1'b1; end
            LEARN_INPUTS: begin kind = INPUT; sweep_last = LAST_INPUT; learn = 1'b1; end
            LEARN_UNITS: begin kind = UNIT; learn = 1'b1; end
            OWN_ERRORS: begin
                kind = ERROR; sweep_last = LAST_OUTPUT; to_outputs = 1'b1; take_own = 1'b1;
            end
            OUT_BIAS: begin sweep_last = NONE; to_outputs = 1'b1; learn = 1'b1; end
            OUT_UNITS: begin kind = UNIT; sweep_last = READ_LAST; to_outputs = 1'b1; learn = 1'b1; end
            default: ;  // the scans, in which nothing is broadcast
        endcase
        if (doing != SWEEP) begin
            add = 1'b0;
            learn = 1'b0;
            take_own = 1'b0;
        end
    end

    wire sweeping = doing == SWEEP;
    wire drained = doing == DRAIN && waited == DRAINED;
    assign nudged = order == NUDGE;
    assign scan = sweeping && (stage == SCAN_DRIVE || stage == SCAN_STEP);
    assign scan_begin = scan && index == NONE;
    assign scale = sweeping && stage == SCALE;
    assign fresh = stage == SCAN_DRIVE;
    assign keep = drained && stage == DRIVE_INPUTS;
    assign restore = sweeping && stage == STEP_UNITS && index == NONE;
    assign softmax_start = drained && stage == LOGIT_UNITS;
    assign use_target = order != READ;
    assign takes = doing == TAKE || (doing == FETCH && !local_rule);
    assign take_input = doing == TAKE && given && !taking_targets;
    assign take_target = doing == TAKE && given && taking_targets;
    assign sample_index = index;
    assign walk_begin = doing == IDLE;
    assign walk_write = doing == WRITE;
    assign loading = order == LOAD;
    assign local_rule = order == UPDATE;
    assign walk_draw = doing == FETCH && !loading && (local_rule || given);
    assign busy = doing != IDLE;

    // Three places for states: the free one, where it is, and where the next one is written.
    wire [1:0] beside = here == 2'd2 ? 2'd0 : here + 2'd1;
    assign there = !nudged ? beside : here == free ? beside : 2'd3 - here - free;

    wire rests = gap <= tolerance;
    wire last_step = steps + 1'b1 == step_limit;
    wire [3:0] step_begin = !nudged ? STEP_UNITS : DIRECT ? SCALE : LOGIT_BIAS;

    // The stage that follows, and whether there is one.
    reg [3:0] following;
    reg goes_on;
    always @* begin
        goes_on = 1'b1;
        following = stage + 4'd1;
        case (stage)
            SCAN_DRIVE: following = step_begin;
            SCAN_STEP: begin following = step_begin; goes_on = !rests && !last_step; end
            LEARN_UNITS, OUT_UNITS: goes_on = 1'b0;
            default: ;
        endcase
    end

    reg [3:0] stage_of_command;
    always @*
        case (command)
            FREE: stage_of_command = DRIVE_BIAS;
            NUDGE: stage_of_command = DIRECT ? SCALE : LOGIT_BIAS;
            LEARN: stage_of_command = OWN_UNITS;
            default: stage_of_command = LOGIT_BIAS;  // READ, LEARN_READOUT
        endcase

    function [INDEX-1:0] sweep_first(input [3:0] of_stage);
        sweep_first = of_stage == LOGIT_UNITS || of_stage == SCALE || of_stage == OUT_UNITS ?
            READ_FIRST : NONE;
    endfunction

    always @(posedge clk)
        if (rst) doing <= IDLE;
        else case (doing)
            IDLE: if (start) begin
                order <= command;
                stage <= stage_of_command;
                index <= command == SAMPLE ? NONE : sweep_first(stage_of_command);
                steps <= {COUNT{1'b0}};
                taking_targets <= 1'b0;
                waited <= 2'd0;
                if (command == FREE) here <= 2'd0;
                else if (command != LEARN) here <= free;
                case (command)
                    LOAD, UPDATE, UPDATE_AS_ASKED: doing <= FETCH;
                    SAMPLE: doing <= TAKE;
                    FREE, NUDGE, READ, LEARN, LEARN_READOUT: doing <= SWEEP;
                    default: doing <= IDLE;
                endcase
            end
            SWEEP: begin
                index <= index + 1'b1;
                if (index == sweep_last) doing <= DRAIN;
            end
            DRAIN: begin
                waited <= waited + 2'd1;
                if (drained) begin
                    stage <= following;
                    index <= sweep_first(following);
                    doing <= stage == LOGIT_UNITS ? SOFTMAX : goes_on ? SWEEP : IDLE;
                    if (stage == SCAN_DRIVE) here <= there;
                    if (stage == SCAN_STEP) begin
                        steps <= steps + 1'b1;
                        // A state that was found at rest stays, and the next one is dropped.
                        if (!rests) here <= there;
                        if (!nudged && !goes_on) free <= rests ? here : there;
                    end
                end
            end
            SOFTMAX: if (softmax_done) begin
                stage <= order == LEARN_READOUT ? OWN_ERRORS : PULL_ERRORS;
                index <= NONE;
                doing <= order == READ ? IDLE : SWEEP;
            end
            TAKE: if (given) begin
                index <= index + 1'b1;
                if (!taking_targets && index == LAST_INPUT) begin
                    taking_targets <= 1'b1;
                    index <= NONE;
                end
                if (taking_targets && index == LAST_OUTPUT) doing <= IDLE;
            end
            FETCH: if (local_rule || given) doing <= WRITE;
            WRITE: doing <= walk_is_last ? IDLE : FETCH;
            default: doing <= IDLE;
        endcase
endmodule
