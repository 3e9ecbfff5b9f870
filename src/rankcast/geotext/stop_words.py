"""Words that are in every text of a language and tell nothing of it: articles, pronouns, small verbs."""

from __future__ import annotations

_ENGLISH = """
a about above after again against all am an and any are as at be because been before being below between
both but by can could did do does doing down during each few for from further had has have having he her
here hers him his how i if in into is it its just me more most my no nor not now of off on once only or
other our ours out over own same she should so some such than that the their theirs them then there these
they this those through to too under until up very was we were what when where which while who whom why
will with would you your yours
"""
_GERMAN = """
aber alle als also am an auch auf aus bei bin bis bist da damit dann das dass dein dem den der des die
dies diese dieser dieses doch dort du durch ein eine einem einen einer eines er es etwas euch euer für
hat hatte hier ich ihr ihre im in ist ja jede jeder jedes jetzt kann kein keine man mehr mein mich mir
mit nach nicht noch nun nur ob oder ohne sehr sein seine sich sie sind so über um und uns unser unter vom
von vor war was wenn wer wie wieder wir wird zu zum zur
"""
_FRENCH = """
à au aux avec ce ces cet cette d dans de des du elle elles en est et eu il ils j je l la le les leur
leurs lui m ma mais me mes moi mon n ne nos notre nous on ou où par pas plus pour qu que qui s sa sans se
ses si son sont sur t ta te tes toi ton tu un une vos votre vous y été être
"""
_SPANISH = """
a al algo como con contra cual cuando de del desde donde dos el ella ellas ellos en entre era es esa ese
eso esta este esto está fue ha han hasta hay la las le les lo los me mi mis muy más ni no nos nosotros o
otra otro para pero por porque que quien se ser si sin sobre son su sus sí también te tiene tu tus un una
uno unos y ya yo
"""
_ITALIAN = """
a ai al alla alle allo anche che chi ci come con cui da dai dal dalla de degli dei del della delle dello
di dove e ed era gli ha hanno ho i il in io la le lei li lo loro lui ma mi mia mio ne nei nel nella noi
non nostro o per perché più quando quella quello questa questo se sei si sia sono su sua sue sui sul
sulla suo ti tra tu tuo un una uno vi voi è
"""
_PORTUGUESE = """
a ao aos as até com como da das de dela dele do dos e ela elas ele eles em entre era essa esse esta este
eu foi há isso isto já lhe mais mas me meu minha muito na nas nem no nos nossa nosso não o os ou para
pela pelo por quando que quem se sem ser seu sua são só também te tem teu tu um uma você é à
"""
_DUTCH = """
aan al alles als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een en er ge
geen had heb hebben heeft hem het hier hij hoe hun ik in is ja je kan maar me meer men met mij mijn na
naar niet nog nu of om onder ons ook op over te tot u uit van veel voor want waren was wat we wel werd
wie wij worden zal ze zich zij zijn zo zonder zou
"""

STOP_WORDS: dict[str, tuple[str, ...]] = {
    "english": tuple(_ENGLISH.split()),
    "german": tuple(_GERMAN.split()),
    "french": tuple(_FRENCH.split()),
    "spanish": tuple(_SPANISH.split()),
    "italian": tuple(_ITALIAN.split()),
    "portuguese": tuple(_PORTUGUESE.split()),
    "dutch": tuple(_DUTCH.split()),
}
