    wire [OUTPUTS*ACC-1:0] logits = totals[UNITS*ACC+:OUTPUTS*ACC];
    wire signed [ACC-1:0] logit;
    wire look_odds;
    wire [ADDRESS:0] odds_address;
    wire [24:0] odds;
    word_select #(.WIDTH(ACC), .COUNT(OUTPUTS), .INDEX(INDEX)) one_logit (
        .words(logits), .index(output_index), .word(logit)
    );
    table_rom #(.WIDTH(25), .ADDRESS(ADDRESS + 1), .FILE("exp.hex")) exponentials (
        .clk(clk), .read(look_odds), .address(odds_address), .word(odds)
    );
    softmax_unit #(
        .OUTPUTS(OUTPUTS), .INDEX(INDEX), .STATE(STATE), .TARGET(TARGET), .ACC(ACC),
        .SHIFT(DROPPED), .ADDRESS(ADDRESS + 1)
    ) softmax (
        .clk(clk), .rst(rst), .start(softmax_start), .use_target(use_target),
        .output_index(output_index), .logit(logit), .target(target), .look(look_odds),
        .address(odds_address), .odds(odds), .found(error_seen), .error(error_word),
        .done(softmax_done)
    );
