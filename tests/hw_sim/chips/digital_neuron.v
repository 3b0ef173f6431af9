// The digital neuron, from "Digital fixed point" in docs/hardware.md and from nothing else.

// One accumulator and its table. A load is an addition to zero.
module neuron #(parameter ACC = 16, F = 9, SHIFT = 10, T = 8, ENTRIES = 4096) (
    input clk, input load, input signed [63:0] term,
    output reg signed [ACC-1:0] total, output reg saturated, output signed [63:0] state
);
    localparam signed [63:0] HIGH = (64'sd1 <<< (ACC - 1)) - 1;  // as far below zero as above
    localparam signed [63:0] HALF = ENTRIES / 2, TOP = (64'sd1 <<< F) - 1;
    localparam signed [63:0] ROUND = SHIFT == 0 ? 0 : 64'sd1 <<< (SHIFT > 0 ? SHIFT - 1 : 0);

    wire signed [63:0] sum = (load ? 64'sd0 : total) + term;
    always @(posedge clk) begin
        saturated <= sum > HIGH || sum < -HIGH;
        total <= sum > HIGH ? HIGH : sum < -HIGH ? -HIGH : sum;
    end

    reg signed [F:0] words [0:ENTRIES-1];
    integer at, word;
    initial for (at = 0; at < ENTRIES; at = at + 1) begin
        word = $rtoi($floor($tanh((at - HALF) / (2.0 ** T)) * (2.0 ** F) + 0.5));
        words[at] = word > TOP ? TOP : word < -TOP ? -TOP : word;
    end
    wire signed [63:0] near = (total + ROUND) >>> SHIFT;
    wire signed [63:0] address = near < -HALF ? -HALF : near > HALF - 1 ? HALF - 1 : near;
    assign state = words[address + HALF];
endmodule

// The register of random words.
module xorshift (input clk, input load, input [31:0] seed, output [15:0] word);
    reg [31:0] held;
    wire [31:0] a = held ^ (held << 13), b = a ^ (a >> 17);
    always @(posedge clk) held <= load ? seed : b ^ (b << 5);
    assign word = held[15:0];
endmodule

// A looped network on one neuron that takes its units in turn: phases, outputs, update.
module looped #(
    parameter INPUTS = 1, UNITS = 1, OUTPUTS = 2, SAMPLES = 1, STEPS = 1, TOLERANCE = 0,
    ACC = 16, WEIGHT = 12, F = 9, G = 10, T = 8, ENTRIES = 4096, GAIN = 0, SEED = 1, ROUNDS = 1
);
    localparam SHIFT = F + G - T, GAIN_BITS = 12;
    localparam IN = 0, BIAS = IN + INPUTS * UNITS, REC = BIAS + UNITS;
    localparam OUT = REC + UNITS * UNITS, BIAS_OUT = OUT + UNITS * OUTPUTS;
    localparam SIZE = BIAS_OUT + OUTPUTS;
    localparam signed [63:0] MOST = (64'sd1 <<< (WEIGHT - 1)) - 1;

    reg clk = 0, load = 0, seeding = 0;
    reg signed [63:0] term = 0;
    wire signed [ACC-1:0] total;
    wire signed [63:0] looked_up;
    wire saturated;
    wire [15:0] random;
    neuron #(ACC, F, SHIFT, T, ENTRIES) core (clk, load, term, total, saturated, looked_up);
    reg draw = 0;
    xorshift register (draw, seeding, SEED[31:0], random);

    reg signed [63:0] theta [0:SIZE-1], update [0:ROUNDS*SIZE-1], x [0:SAMPLES*INPUTS-1];
    reg signed [63:0] y [0:SAMPLES*OUTPUTS-1], drive [0:UNITS-1], state [0:UNITS-1];
    reg signed [63:0] free [0:UNITS-1], image [0:UNITS-1];
    reg signed [63:0] logit [0:OUTPUTS-1], error [0:OUTPUTS-1], odds [0:2*ENTRIES-1];
    reg [15:0] noise [0:SIZE-1];
    reg signed [63:0] most, norm, gap, moved, step, held, depth;
    integer file, count, round, n, i, j, k, steps, clipped, overflows;

    task add(input signed [63:0] what, input first);
        begin
            term = what; load = first;
            #1 clk = 1; #1 clk = 0;
            clipped = clipped + saturated;
        end
    endtask

    task pulse_register; begin #1 draw = 1; #1 draw = 0; end endtask

    // (value + half) / 2^bits, halves up.
    function signed [63:0] rounded(input signed [63:0] value, input integer bits);
        rounded = bits == 0 ? value : (value + (64'sd1 <<< (bits - 1))) >>> bits;
    endfunction

    task drive_units;
        for (j = 0; j < UNITS; j = j + 1) begin
            add(theta[BIAS+j] <<< F, 1);
            for (i = 0; i < INPUTS; i = i + 1) add(x[n*INPUTS+i] * theta[IN+i*UNITS+j], 0);
            drive[j] = total;
            free[j] = looked_up;
        end
    endtask

    // softmax - goal, of the units as they stand; goal is nothing for an output that is read.
    task find_errors(input goal);
        begin
            for (k = 0; k < OUTPUTS; k = k + 1) begin
                add(theta[BIAS_OUT+k] <<< F, 1);
                for (i = 0; i < UNITS; i = i + 1) add(state[i] * theta[OUT+i*OUTPUTS+k], 0);
                logit[k] = total;
            end
            most = logit[0];
            for (k = 1; k < OUTPUTS; k = k + 1) if (logit[k] > most) most = logit[k];
            norm = 0;
            for (k = 0; k < OUTPUTS; k = k + 1) begin
                depth = rounded(most - logit[k], SHIFT);
                error[k] = odds[depth > 2 * ENTRIES - 1 ? 2 * ENTRIES - 1 : depth];
                norm = norm + error[k];
            end
            for (k = 0; k < OUTPUTS; k = k + 1)
                error[k] = ((error[k] <<< F) + norm / 2) / norm - (goal ? y[n*OUTPUTS+k] : 0);
        end
    endtask

    // Units in turn: recurrent words, then the pull of the errors, then the table.
    task find_images(input signed [63:0] gain);
        begin
            if (gain != 0) find_errors(1);
            for (j = 0; j < UNITS; j = j + 1) begin
                held = 0;
                if (gain != 0) begin
                    for (k = 0; k < OUTPUTS; k = k + 1) add(error[k] * theta[OUT+j*OUTPUTS+k], k == 0);
                    held = rounded(gain * total, GAIN_BITS);
                end
                add(drive[j], 1);
                for (i = 0; i < UNITS; i = i + 1) add(state[i] * theta[REC+i*UNITS+j], 0);
                if (gain != 0) add(-held, 0);
                image[j] = looked_up;
            end
        end
    endtask

    // The state that was tested stays where it is at rest.
    task relax(input signed [63:0] gain);
        begin
            for (j = 0; j < UNITS; j = j + 1) state[j] = free[j];
            steps = 0; gap = TOLERANCE + 1;
            while (steps < STEPS && gap > TOLERANCE) begin
                find_images(gain);
                gap = 0;
                for (j = 0; j < UNITS; j = j + 1) begin
                    moved = image[j] > state[j] ? image[j] - state[j] : state[j] - image[j];
                    if (moved > gap) gap = moved;
                end
                steps = steps + 1;
                if (gap > TOLERANCE) for (j = 0; j < UNITS; j = j + 1) state[j] = image[j];
            end
            for (j = 0; j < UNITS; j = j + 1) $display("%0d", state[j]);
            $display("%0d", steps);
            $display("%0d", gap);
        end
    endtask

    // Words in their order; of a lateral pair the second takes the random word of the first.
    task write_words;
        for (k = 0; k < SIZE; k = k + 1) begin
            i = (k - REC) / UNITS; j = (k - REC) % UNITS;
            if (k >= REC && k < OUT && j < i) noise[k] = noise[REC+j*UNITS+i];
            else begin pulse_register; noise[k] = random; end
            step = (update[round*SIZE+k] + $signed({1'b0, noise[k]})) >>> 16;
            step = theta[k] + step;
            if (step > MOST || step < -MOST) overflows = overflows + 1;
            theta[k] = step > MOST ? MOST : step < -MOST ? -MOST : step;
            $display("%0d", theta[k]);
        end
    endtask

    initial begin
        file = $fopen("words.txt", "r");
        for (k = 0; k < SIZE; k = k + 1) count = $fscanf(file, "%d", theta[k]);
        for (k = 0; k < SAMPLES * INPUTS; k = k + 1) count = $fscanf(file, "%d", x[k]);
        for (k = 0; k < SAMPLES * OUTPUTS; k = k + 1) count = $fscanf(file, "%d", y[k]);
        for (k = 0; k < ROUNDS * SIZE; k = k + 1) count = $fscanf(file, "%d", update[k]);
        for (k = 0; k < 2 * ENTRIES; k = k + 1)
            odds[k] = $rtoi($floor($exp(-k / (2.0 ** T)) * (2.0 ** 24) + 0.5));
        clipped = 0; overflows = 0;
        seeding = 1; pulse_register; seeding = 0;
        for (round = 0; round < ROUNDS; round = round + 1) begin
            for (n = 0; n < SAMPLES; n = n + 1) begin
                drive_units;
                relax(0);
                for (j = 0; j < UNITS; j = j + 1) free[j] = state[j];
                find_errors(0);
                for (k = 0; k < OUTPUTS; k = k + 1) $display("%0d", error[k]);
                relax(GAIN);
                relax(-GAIN);
            end
            write_words;
            $display("%0d", clipped);
            $display("%0d", overflows);
        end
    end
endmodule
