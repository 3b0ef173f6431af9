// Runs the commands of script.hex and compares every word that the chip shows with the words of the
// simulated substrate. It ends with how many words of each kind were compared, and how many differ.
`timescale 1ns / 1ps
module test_bench;
    localparam COMMANDS = @COMMANDS@, GIVEN = @GIVEN@;
    localparam STATE = @STATE@, WEIGHT = @WEIGHT@, ACC = @ACC@, WORD = @WORD@, HOST = @HOST@;
    localparam CORES = @CORES@;
    localparam FREE = 4'd3, NUDGE = 4'd4;
    localparam MOST_CYCLES = @MOST_CYCLES@;  // of a command; more is a chip that hangs

    reg clk = 1'b0;
    always #50 clk = ~clk;  // slower than the gates of any width

    // A command: what, gain, steps, tolerance, negate, two learning rates, seed; then what it ends
    // with: steps, gap, and how many accumulators and weights were clipped so far.
    reg [247:0] script [0:COMMANDS-1];
    reg [247:0] line;
    reg signed [HOST-1:0] words_given [0:GIVEN-1];
    integer given_so_far = 0;
    reg rst = 1'b1, start = 1'b0;

    wire busy, takes, state_seen, drive_seen, own_seen, error_seen, weight_seen;
    wire scan_saturated, weight_saturated;
    wire [15:0] steps;
    wire [STATE:0] gap;
    wire signed [STATE-1:0] state_word;
    wire signed [ACC-1:0] drive_word;
    wire signed [WORD-1:0] own_word;
    wire signed [STATE:0] error_word;
    wire signed [WEIGHT-1:0] weight_word;
    wire [CORES-1:0] core_saturated;
    settle_chip chip (
        .clk(clk), .rst(rst), .start(start), .command(line[247:244]), .gain(line[243:228]),
        .step_limit(line[227:212]), .tolerance(line[180+STATE:180]), .negate(line[176]),
        .rate(line[174:168]), .read_rate(line[166:160]), .seed(line[159:128]), .busy(busy),
        .given(given_so_far < GIVEN), .given_word(words_given[given_so_far]), .takes(takes),
        .steps(steps), .gap(gap), .state_seen(state_seen), .state_word(state_word),
        .drive_seen(drive_seen), .drive_word(drive_word), .own_seen(own_seen), .own_word(own_word),
        .error_seen(error_seen), .error_word(error_word), .weight_seen(weight_seen),
        .weight_word(weight_word), .core_saturated(core_saturated),
        .scan_saturated(scan_saturated), .weight_saturated(weight_saturated)
    );
    stream_check #(.WIDTH(STATE), .COUNT(@STATES@), .FILE("states.hex"), .NAME("state"))
        states (.clk(clk), .seen(state_seen), .word(state_word));
    stream_check #(.WIDTH(ACC), .COUNT(@DRIVES@), .FILE("drives.hex"), .NAME("drive"))
        drives (.clk(clk), .seen(drive_seen), .word(drive_word));
    stream_check #(.WIDTH(WORD), .COUNT(@OWNS@), .FILE("ends.hex"), .NAME("end of a phase"))
        ends (.clk(clk), .seen(own_seen), .word(own_word));
    stream_check #(.WIDTH(STATE + 1), .COUNT(@ERRORS@), .FILE("errors.hex"), .NAME("error"))
        errors (.clk(clk), .seen(error_seen), .word(error_word));
    stream_check #(.WIDTH(WEIGHT), .COUNT(@WEIGHTS@), .FILE("weights.hex"), .NAME("weight"))
        weights (.clk(clk), .seen(weight_seen), .word(weight_word));

    event over;  // for whoever watches beside
    integer k;
    integer accumulators_clipped = 0, weights_clipped = 0, cycles = 0, busy_cycles = 0;
    always @(posedge clk) begin
        if (takes && given_so_far < GIVEN) given_so_far <= given_so_far + 1;
        // A flag that is neither 0 nor 1 counts nothing; the words beside it tell.
        if (core_saturated != 0)
            for (k = 0; k < CORES; k = k + 1)
                if (core_saturated[k] === 1'b1) accumulators_clipped = accumulators_clipped + 1;
        if (scan_saturated === 1'b1) accumulators_clipped = accumulators_clipped + 1;
        if (weight_saturated === 1'b1) weights_clipped = weights_clipped + 1;
        cycles = busy ? cycles + 1 : 0;
        if (busy === 1'b1) busy_cycles = busy_cycles + 1;
    end

    integer compared = 0, wrong = 0, number = 0;
    task check(input [20*8-1:0] name, input [31:0] found, input [31:0] expected);
        begin
            compared = compared + 1;
            if (found !== expected) begin
                wrong = wrong + 1;
                if (wrong <= 5) $display("%0s is %0d, expected %0d", name, found, expected);
            end
        end
    endtask

    task report(input [20*8-1:0] name, input [31:0] compared_words, input [31:0] wrong_words,
        input [31:0] missing_words);
        begin
            $display("%0s: %0d compared, %0d differ", name, compared_words,
                wrong_words + missing_words);
        end
    endtask

    task finish;
        begin
            report("drives", drives.compared, drives.wrong, drives.missing);
            report("states", states.compared, states.wrong, states.missing);
            report("errors", errors.compared, errors.wrong, errors.missing);
            report("ends", ends.compared, ends.wrong, ends.missing);
            report("weights", weights.compared, weights.wrong, weights.missing);
            report("counters", compared, wrong, number < COMMANDS);
            $display("clipped: %0d accumulators, %0d weights", accumulators_clipped,
                weights_clipped);
            $display("cycles: %0d", busy_cycles);
            -> over;
            #1 $finish;
        end
    endtask

    initial begin
        $readmemh("script.hex", script);
        $readmemh("given.hex", words_given);
        line = 248'd0;
        repeat (8) @(negedge clk);
        rst = 1'b0;
        for (number = 0; number < COMMANDS; number = number + 1) begin
            line = script[number];
            start = 1'b1;
            @(negedge clk);
            start = 1'b0;
            while (busy && cycles < MOST_CYCLES) @(negedge clk);
            if (busy) begin
                $display("command %0d hangs", number);
                finish;
            end
            repeat (3) @(negedge clk);
            if (line[247:244] == FREE || line[247:244] == NUDGE) begin
                check("number of steps", {16'd0, steps}, {16'd0, line[127:112]});
                check("gap", {{(31 - STATE){1'b0}}, gap}, line[111:80]);
            end
            check("clipped accumulators", accumulators_clipped, line[79:48]);
            check("clipped weights", weights_clipped, line[47:16]);
        end
        finish;
    end
endmodule
